// Made of gather.cu by tools/gather_ptx.sh with nvcc 13.0; do not edit.
#pragma once

namespace spillway {

inline constexpr char kGatherPtx[] = R"ptx(

.version 7.0
.target sm_75
.address_size 64

.visible .entry spillway_gather(
	.param .u64 spillway_gather_param_0,
	.param .u32 spillway_gather_param_1
)
{
	.reg .pred 	%p<10>;
	.reg .b16 	%rs<2>;
	.reg .b32 	%r<49>;
	.reg .b64 	%rd<45>;

	ld.param.u64 	%rd18, [spillway_gather_param_0];
	ld.param.u32 	%r5, [spillway_gather_param_1];
	mov.u32 	%r48, %ctaid.x;
	setp.ge.u32 	%p1, %r48, %r5;
	@%p1 bra 	$L__BB0_12;

	mov.u32 	%r6, %tid.x;
	cvt.u64.u32 	%rd1, %r6;
	mov.u32 	%r7, %ntid.x;
	cvt.u64.u32 	%rd2, %r7;
	mul.wide.u32 	%rd3, %r7, 3;
	add.s64 	%rd4, %rd3, %rd1;
	mov.u32 	%r2, %nctaid.x;
	mul.wide.u32 	%rd5, %r7, 16;
	cvta.to.global.u64 	%rd6, %rd18;

$L__BB0_2:
	mul.wide.u32 	%rd19, %r48, 24;
	add.s64 	%rd20, %rd6, %rd19;
	ld.global.u64 	%rd7, [%rd20+8];
	ld.global.u64 	%rd8, [%rd20];
	or.b64  	%rd21, %rd7, %rd8;
	ld.global.u64 	%rd9, [%rd20+16];
	or.b64  	%rd22, %rd21, %rd9;
	and.b64  	%rd23, %rd22, 15;
	setp.eq.s64 	%p2, %rd23, 0;
	@%p2 bra 	$L__BB0_6;

	setp.le.u64 	%p3, %rd9, %rd1;
	@%p3 bra 	$L__BB0_11;

	mov.u64 	%rd41, %rd1;

$L__BB0_5:
	add.s64 	%rd24, %rd7, %rd41;
	ld.u8 	%rs1, [%rd24];
	add.s64 	%rd25, %rd8, %rd41;
	st.u8 	[%rd25], %rs1;
	add.s64 	%rd41, %rd41, %rd2;
	setp.lt.u64 	%p4, %rd41, %rd9;
	@%p4 bra 	$L__BB0_5;
	bra.uni 	$L__BB0_11;

$L__BB0_6:
	shr.u64 	%rd12, %rd9, 4;
	setp.ge.u64 	%p5, %rd4, %rd12;
	mov.u64 	%rd43, %rd1;
	@%p5 bra 	$L__BB0_9;

	mov.u64 	%rd43, %rd1;

$L__BB0_8:
	shl.b64 	%rd26, %rd43, 4;
	add.s64 	%rd27, %rd7, %rd26;
	shl.b64 	%rd28, %rd2, 2;
	shl.b64 	%rd29, %rd2, 4;
	add.s64 	%rd30, %rd27, %rd29;
	ld.v4.u32 	{%r8, %r9, %r10, %r11}, [%rd30];
	add.s64 	%rd31, %rd30, %rd5;
	ld.v4.u32 	{%r16, %r17, %r18, %r19}, [%rd31];
	add.s64 	%rd32, %rd31, %rd5;
	ld.v4.u32 	{%r24, %r25, %r26, %r27}, [%rd32];
	add.s64 	%rd33, %rd8, %rd26;
	ld.v4.u32 	{%r32, %r33, %r34, %r35}, [%rd27];
	st.v4.u32 	[%rd33], {%r32, %r33, %r34, %r35};
	add.s64 	%rd34, %rd33, %rd5;
	st.v4.u32 	[%rd34], {%r8, %r9, %r10, %r11};
	add.s64 	%rd35, %rd34, %rd5;
	st.v4.u32 	[%rd35], {%r16, %r17, %r18, %r19};
	add.s64 	%rd36, %rd35, %rd5;
	st.v4.u32 	[%rd36], {%r24, %r25, %r26, %r27};
	add.s64 	%rd43, %rd28, %rd43;
	add.s64 	%rd37, %rd43, %rd3;
	setp.lt.u64 	%p6, %rd37, %rd12;
	@%p6 bra 	$L__BB0_8;

$L__BB0_9:
	setp.ge.u64 	%p7, %rd43, %rd12;
	@%p7 bra 	$L__BB0_11;

$L__BB0_10:
	shl.b64 	%rd38, %rd43, 4;
	add.s64 	%rd39, %rd8, %rd38;
	add.s64 	%rd40, %rd7, %rd38;
	ld.v4.u32 	{%r40, %r41, %r42, %r43}, [%rd40];
	st.v4.u32 	[%rd39], {%r40, %r41, %r42, %r43};
	add.s64 	%rd43, %rd43, %rd2;
	setp.lt.u64 	%p8, %rd43, %rd12;
	@%p8 bra 	$L__BB0_10;

$L__BB0_11:
	add.s32 	%r48, %r48, %r2;
	setp.lt.u32 	%p9, %r48, %r5;
	@%p9 bra 	$L__BB0_2;

$L__BB0_12:
	ret;

}

)ptx";

}  // namespace spillway
