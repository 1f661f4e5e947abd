"""What a safetensors file says about itself, read by a walker of our own before it is used."""
