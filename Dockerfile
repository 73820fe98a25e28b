# docker build -t workflow-rl .
# docker run --rm -v "$PWD/runs:/runs" workflow-rl train-async --preset cage2-quick --run-dir /runs/quick
ARG PYTHON=python:3.11-slim
FROM ${PYTHON}

WORKDIR /src
COPY requirements.txt .
# The wheels for CPUs: those with CUDA take several GB more. Empty: no further index is asked.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN pip install --no-cache-dir ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} \
    -r requirements.txt
COPY . .
RUN pip install --no-cache-dir --no-deps .

# A folder without the sources, so that the installed package is the one that runs.
WORKDIR /data
ENTRYPOINT ["workflow-rl"]
CMD ["--help"]
