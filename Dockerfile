# A small image: the wheel, the weights, a user without rights. `packaging/release.sh` fills dist/ first.
FROM python:3.12-slim
ARG EXTRAS=minilm
COPY dist/*.whl /tmp/dist/
RUN pip install --no-cache-dir --find-links /tmp/dist "engramlog[${EXTRAS}]" \
    && rm -rf /tmp/dist \
    && useradd --system --uid 10001 --home-dir /data --shell /usr/sbin/nologin engramlog \
    && install -d -o engramlog -g engramlog -m 0700 /data
USER engramlog
WORKDIR /data
ENV STIGMEM_DATA_DIR=/data STIGMEM_HOST=0.0.0.0
VOLUME /data
EXPOSE 8765
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s CMD \
    ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8765/readyz', timeout=4)"]
ENTRYPOINT ["engramlog"]
CMD ["serve"]
