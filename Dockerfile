# Build: everything that compiles. Run: the binary and its shared libraries, an unprivileged user, writes to /data only.
#
#   docker build --build-arg COMMIT="$(git rev-parse --short=12 HEAD)" -t ckptd .
#
# Debian 12 or a base made from it; the names of the libraries below are that release's.
ARG BASE=debian:12-slim

FROM ${BASE} AS build
WORKDIR /src
COPY scripts/deps.sh scripts/deps.sh
RUN scripts/deps.sh
COPY . .
# .git stays outside, so the commit comes from whoever builds. It is part of the converter's version.
ARG COMMIT=
RUN make -j"$(nproc)" COMMIT="$COMMIT" all \
 && make COMMIT="$COMMIT" install DESTDIR=/out PREFIX=/usr \
 && strip /out/usr/bin/ckptd

FROM ${BASE}
# hadolint ignore=DL3008
RUN apt-get update -qq \
 && apt-get install -y -qq --no-install-recommends \
      libmicrohttpd12 libjansson4 libzip4 libuv1 libssl3 zlib1g libdeflate0 libseccomp2 libsqlite3-0 \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb /var/log/apt /var/log/dpkg.log \
 && install -d -o 65532 -g 65532 -m 700 /data
COPY --from=build /out/usr/bin/ckptd /usr/bin/ckptd
ARG BASE
ARG COMMIT=
LABEL org.opencontainers.image.title="ckptd" \
      org.opencontainers.image.description="HTTP daemon that converts PyTorch checkpoints" \
      org.opencontainers.image.base.name="${BASE}" \
      org.opencontainers.image.revision="${COMMIT}"
# Numeric, so that an orchestrator can see that it is not root.
USER 65532:65532
# SQLite puts its temporary files here when /tmp cannot be written.
WORKDIR /data
VOLUME /data
# All interfaces: the daemon then refuses to start without CKPTD_KEYS_FILE, or CKPTD_INSECURE=yes said by whoever runs it.
ENV CKPTD_DATA=/data CKPTD_LISTEN=0.0.0.0:8080
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --retries=3 CMD ["ckptd", "healthcheck"]
ENTRYPOINT ["ckptd"]
CMD ["serve"]
