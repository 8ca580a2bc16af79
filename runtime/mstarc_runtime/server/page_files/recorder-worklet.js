/* Hands on what a microphone gives, piece by piece. */
registerProcessor(
  "recorder",
  class extends AudioWorkletProcessor {
    process([[channel]]) {
      if (channel) this.port.postMessage(channel.slice());
      return true;
    }
  },
);
