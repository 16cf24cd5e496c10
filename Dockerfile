# docker build -t specdec-lab . && docker run --rm -p 8888:8888 specdec-lab
FROM python:3.11-slim

RUN apt-get update \
    && apt-get install -y --no-install-recommends make \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home learner \
    && install -d -o learner -g learner /specdec-lab

USER learner
WORKDIR /specdec-lab

# for example --build-arg PIP_ARGS="--extra-index-url ..." for an index with CPU builds of torch
ARG PIP_ARGS=""

# the version is read from the package, so it has to be there when the dependencies are installed
COPY --chown=learner pyproject.toml constraints.txt Makefile README.md LICENSE NOTICE ./
COPY --chown=learner specdec_core specdec_core
COPY --chown=learner kernels kernels
COPY --chown=learner labs labs
RUN make setup PIP_ARGS="${PIP_ARGS}"

COPY --chown=learner notebooks notebooks
COPY --chown=learner exercises exercises
COPY --chown=learner docs docs
COPY --chown=learner tests tests

EXPOSE 8888
CMD ["make", "lab", "LAB_ARGS=--ip=0.0.0.0 --port=8888 --no-browser"]
