# One GPU (or none): everything installed into /workspace/.venv.
#
#   docker build -t fairseq-linformer .
#   docker run --gpus all --shm-size 8g -v "$PWD/data:/workspace/data" -v "$PWD/runs:/workspace/runs" -it fairseq-linformer
#
# PyTorch from the package index carries its CUDA libraries; the host needs the driver and the NVIDIA container toolkit.
FROM python:3.11-slim
RUN apt-get update -q && apt-get install -y -q --no-install-recommends g++ git && rm -rf /var/lib/apt/lists/*
WORKDIR /workspace
COPY . .
RUN scripts/setup.sh && rm -rf /root/.cache/pip
ENV PATH=/workspace/.venv/bin:$PATH
CMD ["bash"]
