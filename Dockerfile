# One image for workers and Spark jobs: Python with the project, Java for Spark, the jars fetched once.
FROM maven:3.9-eclipse-temurin-17 AS jars
COPY pastforward/jars /poms
RUN for of in kafka spark; do \
      mvn --quiet --batch-mode --file /poms/$of/pom.xml dependency:copy-dependencies \
        -DincludeScope=runtime -DoutputDirectory=/jars/$of; \
    done

FROM python:3.11-slim-bookworm
RUN apt-get update && apt-get install --yes --no-install-recommends openjdk-17-jre-headless && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 10001 --create-home pastforward && install --directory --owner pastforward /data /history /opt/pastforward
WORKDIR /source
COPY pyproject.toml setup.py constraints.txt README.md LICENSE ./
COPY docker docker
COPY pastforward pastforward
COPY columns columns
COPY streams streams
COPY state state
COPY schemas schemas
COPY matching matching
COPY spark_batch spark_batch
COPY gateway gateway
# As the user who runs it: Numba takes kernels only from a folder that it may write to.
RUN chown -R pastforward /source
USER pastforward
RUN docker/install /opt/pastforward
COPY --from=jars /jars /jars
WORKDIR /data
ENV PATH=/opt/pastforward/bin:$PATH PASTFORWARD_JARS_DIR=/jars PASTFORWARD_DATA_DIR=/data
VOLUME /data
HEALTHCHECK --interval=5s --timeout=3s --start-period=10s --retries=24 CMD ["/source/docker/healthy"]
ENTRYPOINT ["/source/docker/entrypoint"]
CMD ["worker"]
