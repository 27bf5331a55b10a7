"""`marmix demo`: a fit of real data from file to report, and a scoreboard of classifiers on hidden labels."""
