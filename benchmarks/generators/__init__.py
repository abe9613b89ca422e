"""The loads of the product's own figures: drawn from a seed, the same for the same arguments, made by NumPy in one go.

| module      | gives                                                                      |
| `matching`  | predicates and publications: equality-led, range-led, PUBSUB's mix         |
| `state`     | operations for a store, in chunks (after Qader and Hristidis)              |
| `stream`    | records for the topics                                                     |

Predicates are Arrow tables as `Index.add_predicates` takes them, publications tables as `Index.match_table` takes them, operations tables
as `Store.apply` takes them.
"""
