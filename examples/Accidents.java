import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.UUID;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Utils;

/**
 * Subscribes, and prints what comes, with nothing but Kafka's own client: records in JSON, as docs/wire-format.md has them.
 * The workers write JSON if they are started with --notification-format json.
 *
 *   java -cp '.jars/kafka/*' examples/Accidents.java localhost:9092
 */
public final class Accidents {
  public static void main(String[] arguments) throws Exception {
    String servers = arguments[0];
    String prefix = arguments.length > 1 ? arguments[1] : "pastforward.";
    String subscriber = "anna";
    String name = UUID.randomUUID().toString();

    Properties reading = new Properties();
    reading.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, servers);
    reading.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed"); // what was rolled back is no notification
    reading.put(ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class);
    reading.put(ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class);
    try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(reading)) {
      // all that one recipient is told of is in one partition, where Java's partitioner puts its key
      int partitions = consumer.partitionsFor(prefix + "notifications").size();
      int own = Utils.toPositive(Utils.murmur2(subscriber.getBytes("UTF-8"))) % partitions;
      TopicPartition partition = new TopicPartition(prefix + "notifications", own);
      consumer.assign(List.of(partition));
      consumer.seekToEnd(List.of(partition));
      consumer.position(partition); // before the subscription is sent: nothing of the past is missed

      String where = "kind = 'accident' AND severity >= 3";
      String subscription =
          String.format(
              "{\"subscriber_id\": \"%s\", \"topic\": \"1.4\", \"where\": \"%s\", \"starts_at\": %d}",
              subscriber, where, (System.currentTimeMillis() - 600_000) * 1000);
      send(servers, prefix + "subscriptions", name, subscription);
      while (true) {
        consumer.poll(Duration.ofSeconds(1)).forEach(
            record -> {
              if (subscriber.equals(record.key()) && record.value().contains(name)) System.out.println(record.value());
            });
      }
    }
  }

  private static void send(String servers, String topic, String key, String value) throws Exception {
    Properties writing = new Properties();
    writing.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, servers);
    writing.put(ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, true); // or a retry reorders the records of a key
    writing.put(ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, StringSerializer.class);
    writing.put(ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, StringSerializer.class);
    try (KafkaProducer<String, String> producer = new KafkaProducer<>(writing)) {
      producer.send(new ProducerRecord<>(topic, key, value)).get();
    }
  }
}
