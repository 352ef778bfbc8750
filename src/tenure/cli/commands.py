def run_cli(args, guarded):
    return 1
