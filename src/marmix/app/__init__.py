"""What people type: tables in, `analyse`, findings out as a page, in the terminal and as files."""
