"""The bundled model, all-MiniLM-L6-v2: its files, its tokenizer, its encoder, its process."""
