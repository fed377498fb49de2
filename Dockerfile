# Build: everything that compiles. Run: the binary and its shared libraries, an unprivileged user, writes to /data only.
FROM debian:12-slim AS build
WORKDIR /src
COPY scripts/deps.sh scripts/deps.sh
RUN apt-get update -qq && scripts/deps.sh
COPY . .
RUN make -j"$(nproc)" all && make install DESTDIR=/out PREFIX=/usr

FROM debian:12-slim
RUN apt-get update -qq \
 && apt-get install -y -qq --no-install-recommends libmicrohttpd12 libjansson4 libzip4 libuv1 libssl3 zlib1g libdeflate0 libseccomp2 \
 && rm -rf /var/lib/apt/lists/* \
 && install -d -o 65532 -g 65532 /data
COPY --from=build /out/usr/bin/ckptd /usr/bin/ckptd
USER 65532:65532
VOLUME /data
# An address that other machines reach needs --insecure on the command line, said by whoever runs the container.
ENV CKPTD_LISTEN=0.0.0.0:8080 CKPTD_DATA=/data
EXPOSE 8080
ENTRYPOINT ["ckptd"]
CMD ["serve"]
