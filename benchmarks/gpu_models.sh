#!/bin/sh
# Compiles BAGEL, V-JEPA 2-AC and pi0.5 in full size with random weights and measures them on one H200,
# and on two where the first argument is 2. PEER is a checkout of github.com/facebookresearch/vjepa2.
set -eu
cd "$(dirname "$0")/.."
export PYTHONPATH="$PWD:$PWD/runtime:${PYTHONPATH:-}"
for model in bagel vjepa2_ac pi05; do
  python -m mstarc compile "specs/$model.mstar" --sizes "specs/random/$model.yaml" \
    --placement 1xH200 -o "build/$model"
done
for how in tf32 fp16 fp16x3 bf16x6; do
  python -m mstarc compile specs/pi05.mstar --sizes "benchmarks/pi05_$how.yaml" \
    --placement 1xH200 -o "build/pi05_$how"
done
cd benchmarks
python gpu_models.py vjepa2_ac=../build/vjepa2_ac ${PEER:+--peer "$PEER"}
python gpu_models.py pi05=../build/pi05_tf32 pi05=../build/pi05_fp16 pi05=../build/pi05_fp16x3 \
  pi05=../build/pi05_bf16x6 pi05=../build/pi05 --batches 1 8
python gpu_models.py bagel=../build/bagel --batches 1 4 16
if [ "${1:-1}" = 2 ]; then
  python -m mstarc compile bagel_apart_2gpu.yaml --sizes ../specs/random/bagel.yaml -o ../build/bagel_apart
  python gpu_models.py bagel=../build/bagel_apart --part draw
fi
