# One image for workers and Spark jobs: Python with the project, Java for Spark, the jars fetched once.
FROM maven:3.9-eclipse-temurin-17 AS jars
COPY pastforward/jars /poms
RUN for of in kafka spark; do \
      mvn --quiet --batch-mode --file /poms/$of/pom.xml dependency:copy-dependencies \
        -DincludeScope=runtime -DoutputDirectory=/jars/$of; \
    done

FROM python:3.11-slim-bookworm
RUN apt-get update && apt-get install --yes --no-install-recommends openjdk-17-jre-headless curl && rm -rf /var/lib/apt/lists/*
WORKDIR /app
COPY pyproject.toml setup.py constraints.txt README.md LICENSE ./
COPY pastforward pastforward
COPY columns columns
COPY streams streams
COPY state state
COPY schemas schemas
COPY matching matching
COPY spark_batch spark_batch
COPY gateway gateway
RUN pip install --no-cache-dir --constraint constraints.txt --editable '.[spark,serve]' && python -m pastforward.preparation.kernels
COPY --from=jars /jars /jars
ENV PASTFORWARD_JARS_DIR=/jars PASTFORWARD_DATA_DIR=/data
VOLUME /data
ENTRYPOINT ["pastforward"]
CMD ["worker"]
