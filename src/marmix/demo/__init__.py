"""The demonstration: the whole way on real rows, and a comparison of classifiers on them."""
