"""`marmix demo`: a fit of real data from file to report, and a comparison of classifiers on them."""
