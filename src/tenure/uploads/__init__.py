"""Files that come with prompts: what they are by their content, and what is made of them."""
