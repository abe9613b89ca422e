"""The papers' loads: drawn from a seed, the same for the same arguments, made by NumPy in one go.

| module      | after                                             | gives                                                         |
| `begen`     | BEGen, as Mishra and Sahni use it (PUBSUB)        | predicates and publications of many dimensions, uniform, Zipf |
| `fabret`    | Fabret et al.: W0, W1, W2, changing schema, skew  | predicates and publications of 32 names                       |
| `tomasic`   | Tomasic et al.: the four loads                    | predicates and publications by number of either               |
| `lo_chiu`   | Lo and Chiu                                       | schema, subscriptions and events for rendezvous schemes       |
| `cells`     | Qader and Hristidis                               | operations for a store: clustered cells, quad tree, circles   |

Where a paper does not state something, the module says what was chosen. Predicates are Arrow tables as `Index.add_predicates` takes
them, publications tables as `Index.match_table` takes them, operations tables as `Store.apply` takes them.
"""
