"""Skills: folders of instructions that an agent loads when a task needs them."""
