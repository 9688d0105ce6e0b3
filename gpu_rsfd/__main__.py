from gpu_rsfd.cli import main

main()
