from gpu_rsfd.cli.program import main

main()
