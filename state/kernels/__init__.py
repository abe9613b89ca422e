"""What runs compiled. Plain functions on arrays; `state.memory` and `state.store` call them."""
