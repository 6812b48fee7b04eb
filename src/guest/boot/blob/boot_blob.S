/* caisson-boot as it was linked, between two names. */
        .section .rodata
        .global caisson_boot_begin
        .global caisson_boot_end
        .balign 4096
caisson_boot_begin:
        .incbin CAISSON_BOOT_PATH
caisson_boot_end:
        .byte 0
        .section .note.GNU-stack,"",%progbits
