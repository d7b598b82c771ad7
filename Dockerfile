# fedonce with all that parties in a federation need, for CPUs:  docker build --tag fedonce .
# docs/containers.md says how to use it, and compose.yaml has a server and two guests.

FROM python:3.11-slim-bookworm AS build
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ARG EXTRAS=report,privacy,psi,crypto,nvflare
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/fedonce
WORKDIR /src
# torch alone, and first: it is most of the image, and changes least.
COPY constraints.txt ./
RUN /opt/fedonce/bin/pip install -c constraints.txt --extra-index-url "$TORCH_INDEX" torch
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN /opt/fedonce/bin/pip install -c constraints.txt ".[$EXTRAS]"

FROM python:3.11-slim-bookworm
# LightGBM needs OpenMP of the system. Its version is Debian's business, as are its security fixes.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home fedonce
COPY --from=build /opt/fedonce /opt/fedonce
ENV PATH=/opt/fedonce/bin:$PATH KIT=/kit
USER 10001
WORKDIR /home/fedonce
# A party of a federation is well if it is connected: the host listens, the guest is registered. Without a kit there is nothing to ask.
HEALTHCHECK --interval=60s --timeout=30s --start-period=60s --retries=3 \
    CMD ["sh", "-c", "[ ! -e \"$KIT/kit.toml\" ] || fedonce federation status \"$KIT\" --json | grep -q '\"connected\": true'"]
ENTRYPOINT ["fedonce"]
CMD ["--help"]
