# docker build -t workflow-rl .
# docker run --rm -v "$PWD/runs:/runs" workflow-rl train-async --preset cage2-quick --run-dir /runs/quick
ARG PYTHON=python:3.11-slim
FROM ${PYTHON}

WORKDIR /src
COPY requirements.txt .
# The wheels for CPUs: those with CUDA take several GB more.
RUN pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu \
    -r requirements.txt
COPY . .
RUN pip install --no-cache-dir --no-deps .

# A folder without the sources, so that the installed package is the one that runs.
WORKDIR /data
ENTRYPOINT ["workflow-rl"]
CMD ["--help"]
