/* caisson-layer as it was linked, between two names. */
        .section .rodata
        .global caisson_layer_begin
        .global caisson_layer_end
        .balign 4096
caisson_layer_begin:
        .incbin CAISSON_LAYER_PATH
caisson_layer_end:
        .byte 0
        .section .note.GNU-stack,"",%progbits
