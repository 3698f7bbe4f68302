# Pin both base images by digest before you deploy: docs/how-to/running.md says how.
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN python -m venv /opt/oddarms && /opt/oddarms/bin/pip install --no-cache-dir '.[server,postgresql]'

FROM python:3.13-slim
RUN useradd --system --create-home oddarms && install -d -m 700 -o oddarms /token /data
COPY --from=build /opt/oddarms /opt/oddarms
USER oddarms
WORKDIR /data
ENV PATH=/opt/oddarms/bin:$PATH
EXPOSE 8321
HEALTHCHECK CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8321/healthz', timeout=5)"]
STOPSIGNAL SIGTERM
CMD ["oddarms", "serve", "--host", "0.0.0.0", "--token-file", "/token/admin"]
