"""The claims of the six example certificates, one module for each method."""
