"""The paper reproduced and corrected: its tables and figures, and the theory of missing labels. Not part of the wheel."""
