# The service and its command line. Build: docker build -t nodius-graphrag .
FROM python:3.11.14-slim-bookworm AS build
WORKDIR /src
# What it depends on first: a change of its own code then builds in seconds.
COPY pyproject.toml constraints.txt ./
RUN python -m venv /opt/nodius \
 && python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies'], sep='\n')" \
      > dependencies.txt \
 && /opt/nodius/bin/pip install --no-cache-dir --disable-pip-version-check -c constraints.txt -r dependencies.txt
COPY README.md LICENSE NOTICE ./
COPY cli cli
COPY datasources datasources
COPY graphrag graphrag
COPY mock_data mock_data
COPY nodius_graphrag nodius_graphrag
COPY server server
COPY tools tools
RUN /opt/nodius/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps .

FROM python:3.11.14-slim-bookworm
RUN useradd --uid 10001 --user-group --no-log-init --home-dir /var/lib/nodius --create-home nodius
COPY --from=build /opt/nodius /opt/nodius
ENV PATH=/opt/nodius/bin:$PATH PYTHONUNBUFFERED=1 NODIUS_HOST=0.0.0.0
USER 10001
WORKDIR /var/lib/nodius
EXPOSE 8426
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=6 \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8426/readyz', timeout=4)"]
ENTRYPOINT ["nodius"]
CMD ["serve"]
