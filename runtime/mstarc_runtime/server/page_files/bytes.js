/* Bytes as text and files: base64, WAV, NPY. */

export async function base64Of(blob) {
  const url = await new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });
  return url.slice(url.indexOf(",") + 1);
}

export function bytesOf(base64) {
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}

/* 16-bit samples → numbers in -1 … 1. */
export function samplesOf(base64) {
  const bytes = bytesOf(base64);
  const whole = new Int16Array(bytes.buffer, 0, bytes.length >> 1);
  return Float32Array.from(whole, (sample) => sample / 32767);
}

/* Pieces of one sound as a file. */
export function wav(pieces, rate) {
  const count = pieces.reduce((sum, piece) => sum + piece.length, 0);
  const view = new DataView(new ArrayBuffer(44 + 2 * count));
  const text = (at, word) => [...word].forEach((c, i) => view.setUint8(at + i, c.charCodeAt(0)));
  text(0, "RIFF");
  view.setUint32(4, 36 + 2 * count, true);
  text(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, rate, true);
  view.setUint32(28, 2 * rate, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  text(36, "data");
  view.setUint32(40, 2 * count, true);
  let at = 44;
  for (const piece of pieces) {
    for (const sample of piece) {
      view.setInt16(at, Math.round(Math.max(-1, Math.min(1, sample)) * 32767), true);
      at += 2;
    }
  }
  return new Blob([view], { type: "audio/wav" });
}

const NPY = {
  float64: "<f8", float32: "<f4", float16: "<f2", int64: "<i8", int32: "<i4", int16: "<i2",
  int8: "|i1", uint64: "<u8", uint32: "<u4", uint16: "<u2", uint8: "|u1", bool: "|b1",
};

/* An array of the server as a file of NumPy. */
export function npy({ dtype, shape, data }) {
  const dims = shape.length === 1 ? `${shape[0]},` : shape.join(", ");
  let head = `{'descr': '${NPY[dtype]}', 'fortran_order': False, 'shape': (${dims}), }`;
  head = head.padEnd(Math.ceil((head.length + 11) / 64) * 64 - 11) + "\n";
  const intro = new Uint8Array([0x93, 78, 85, 77, 80, 89, 1, 0, head.length & 255, head.length >> 8]);
  return new Blob([intro, head, bytesOf(data)], { type: "application/octet-stream" });
}

/* The numbers of an array of the server; null for kinds that JavaScript has no array of. */
export function numbersOf({ dtype, data }) {
  const kinds = {
    float64: Float64Array, float32: Float32Array, int32: Int32Array, int16: Int16Array,
    int8: Int8Array, uint32: Uint32Array, uint16: Uint16Array, uint8: Uint8Array, bool: Uint8Array,
  };
  const bytes = bytesOf(data).buffer;
  if (dtype === "int64") return Float64Array.from(new BigInt64Array(bytes), Number);
  return kinds[dtype] ? new kinds[dtype](bytes) : null;
}

export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
