/* SPDX-License-Identifier: Apache-2.0
 *
 * Scalar instructions against formulas in C: one line of PTX from %a0, %a1, %a2 to %d0, on random
 * words and on the awkward ones.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"

typedef uint64_t formula(uint64_t a, uint64_t b, uint64_t c);

static uint32_t lo(uint64_t a)
{
    return (uint32_t)a;
}

static int32_t si(uint64_t a)
{
    return (int32_t)(uint32_t)a;
}

static float fl(uint64_t a)
{
    const uint32_t u = (uint32_t)a;
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static uint64_t bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return f != f ? 0x7fffffff : u;
}

static double db(uint64_t a)
{
    double d;
    memcpy(&d, &a, 8);
    return d;
}

static uint64_t bits64(double d)
{
    uint64_t u;
    memcpy(&u, &d, 8);
    return d != d ? UINT64_C(0x7fffffffffffffff) : u;
}

static int64_t clamp(int64_t x, int64_t least, int64_t most)
{
    return x < least ? least : x > most ? most : x;
}

/* Written once more, bit by bit, apart from the interpreter's. */
static double half(uint64_t h)
{
    const int e = (int)(h >> 10 & 31), m = (int)(h & 1023);
    const double v =
        e == 31 ? (m != 0 ? NAN : INFINITY) : ldexp(e != 0 ? 1024 + m : m, (e != 0 ? e : 1) - 25);
    return (h >> 15 & 1) != 0 ? -v : v;
}

static uint32_t to_half(double v)
{
    const uint32_t sign = signbit(v) ? 0x8000 : 0;
    const double size = fabs(v);
    if (v != v) {
        return 0x7fff;
    }
    if (size >= 65520) {
        return sign | 0x7c00;
    }
    int e = -13;
    if (size >= 0x1p-14) {
        frexp(size, &e);
    }
    const double units = nearbyint(ldexp(size, 11 - e));
    return sign + (uint32_t)(e + 13) * 1024 + (uint32_t)units;
}

/* clang-format off */
#define F(name, expression) static uint64_t name(uint64_t a, uint64_t b, uint64_t c) { (void)a; (void)b; (void)c; return (uint64_t)(expression); }
F(add32, lo(a) + lo(b)) F(sub32, lo(a) - lo(b)) F(add64, a + b) F(sub64, a - b)
F(add16, (uint16_t)(a + b)) F(addsat, (uint32_t)clamp((int64_t)si(a) + si(b), INT32_MIN, INT32_MAX))
F(mullo, lo(a) * lo(b)) F(mulhis, (uint32_t)((int64_t)si(a) * si(b) >> 32)) F(mulhiu, (uint64_t)lo(a) * lo(b) >> 32)
F(mulwides, (int64_t)si(a) * si(b)) F(mulwideu, (uint64_t)lo(a) * lo(b)) F(mul64, a * b)
F(mulhi64, (unsigned __int128)a * b >> 64) F(mulhis64, (unsigned __int128)((__int128)(int64_t)a * (int64_t)b) >> 64)
F(wide16, (uint32_t)((int16_t)a * (int16_t)b))
F(madlo, lo(a) * lo(b) + lo(c)) F(madhi, (uint32_t)(((uint64_t)lo(a) * lo(b) >> 32) + lo(c))) F(madwide, (uint64_t)((int64_t)si(a) * si(b)) + c)
F(mad64, a * b + c)
F(divs, lo(b) == 0 ? UINT32_MAX : si(b) == -1 ? 0u - lo(a) : (uint32_t)(si(a) / si(b))) F(divu, lo(b) == 0 ? UINT32_MAX : lo(a) / lo(b))
F(rems, lo(b) == 0 ? lo(a) : si(b) == -1 ? 0 : (uint32_t)(si(a) % si(b))) F(remu64, b == 0 ? a : a % b)
F(mins, si(a) < si(b) ? lo(a) : lo(b)) F(maxu, lo(a) > lo(b) ? lo(a) : lo(b)) F(min64, (int64_t)a < (int64_t)b ? a : b)
F(maxs16, (uint16_t)((int16_t)a > (int16_t)b ? a : b))
F(abs32, si(a) < 0 ? 0u - lo(a) : lo(a)) F(neg64, 0 - a) F(not32, (uint32_t)~a) F(and64, a & b) F(or32, lo(a) | lo(b)) F(xor16, (uint16_t)(a ^ b)) F(cnot, lo(a) == 0)
F(lop, lo((a & b) ^ c)) F(lopmaj, lo((a & b) | (a & c) | (b & c)))
F(shl32, lo(b) > 31 ? 0 : lo(a) << lo(b)) F(shr32, lo(b) > 31 ? 0 : lo(a) >> lo(b)) F(sar32, (uint32_t)(si(a) >> (lo(b) > 31 ? 31 : lo(b))))
F(shl64, lo(b) > 63 ? 0 : a << lo(b)) F(sar64, (int64_t)a >> (lo(b) > 63 ? 63 : lo(b))) F(sar16, (uint16_t)((int16_t)a >> (lo(b) > 15 ? 15 : lo(b))))
F(shfl, lo(((uint64_t)lo(b) << 32 | lo(a)) << (c & 31) >> 32)) F(shfr, lo(lo(c) >= 32 ? lo(b) : ((uint64_t)lo(b) << 32 | lo(a)) >> lo(c)))
static uint64_t prmt(uint64_t a, uint64_t b, uint64_t c) { const uint64_t v = b << 32 | lo(a); uint32_t r = 0; for (int i = 0; i < 4; ++i) { const int s = (int)(c >> (4 * i) & 15); const uint8_t x = (uint8_t)(v >> (8 * (s & 7))); r |= (uint32_t)(s & 8 ? (x & 128 ? 255 : 0) : x) << (8 * i); } return r; }
static uint64_t bfeu(uint64_t a, uint64_t b, uint64_t c) { uint32_t r = 0; for (unsigned i = 0; i < (c & 255) && i < 32; ++i) { if ((b & 255) + i < 32) { r |= (lo(a) >> ((b & 255) + i) & 1) << i; } } return r; }
static uint64_t bfes(uint64_t a, uint64_t b, uint64_t c) { const unsigned p = b & 255, n = c & 255; uint32_t r = 0; for (unsigned i = 0; i < 32 && n != 0; ++i) { unsigned at = p + (i < n ? i : n - 1); r |= (lo(a) >> (at < 31 ? at : 31) & 1) << i; } return r; }
static uint64_t bfi(uint64_t a, uint64_t b, uint64_t c) { const unsigned p = c & 255; uint32_t r = lo(b); for (unsigned i = 0; i < 7; ++i) { if (p + i < 32) { r = (r & ~(1u << (p + i))) | (lo(a) >> i & 1) << (p + i); } } return r; }
F(clz, lo(a) == 0 ? 32 : __builtin_clz(lo(a))) F(popc64, __builtin_popcountll(a)) F(bfind, lo(a) == 0 ? UINT32_MAX : 31u - (unsigned)__builtin_clz(lo(a)))
static uint64_t brev(uint64_t a, uint64_t b, uint64_t c) { (void)b; (void)c; uint32_t r = 0; for (int i = 0; i < 32; ++i) { r |= (lo(a) >> i & 1) << (31 - i); } return r; }
static uint64_t dp4a(uint64_t a, uint64_t b, uint64_t c) { int32_t s = 0; for (int i = 0; i < 4; ++i) { s += (int8_t)(a >> (8 * i)) * (int)(uint8_t)(b >> (8 * i)); } return lo(c) + (uint32_t)s; }
F(sad, lo(c) + (uint32_t)(si(a) > si(b) ? lo(a) - lo(b) : lo(b) - lo(a)))
F(addf, bits(fl(a) + fl(b))) F(subf, bits(fl(a) - fl(b))) F(mulf, bits(fl(a) * fl(b))) F(fmaf_, bits(fmaf(fl(a), fl(b), fl(c)))) F(divf, bits(fl(a) / fl(b)))
/* -0 is less than 0; of a NaN and a number the number */
F(minf, fl(a) == fl(b) ? lo(a) | lo(b) : fl(a) != fl(a) ? bits(fl(b)) : fl(b) != fl(b) ? bits(fl(a)) : bits(fl(a) < fl(b) ? fl(a) : fl(b))) F(absf, lo(a) & 0x7fffffff) F(negf, lo(a) ^ 0x80000000) F(copysignf_, (lo(a) & 0x80000000) | (lo(b) & 0x7fffffff))
F(addd, bits64(db(a) + db(b))) F(fmad, bits64(fma(db(a), db(b), db(c)))) F(sqrtf_, bits(sqrtf(fl(a)))) F(rcpf, bits(1 / fl(a))) F(sqrtd, bits64(sqrt(db(a))))
F(rnis, fl(a) != fl(a) ? 0 : (uint32_t)(int32_t)clamp((int64_t)fmax(fmin(nearbyint(fl(a)), 3e9), -3e9), INT32_MIN, INT32_MAX))
F(rziu, fl(a) != fl(a) || fl(a) <= 0 ? 0 : fl(a) >= 0x1p32f ? UINT32_MAX : (uint32_t)fl(a)) F(rmif, bits(floorf(fl(a)))) F(rpif, bits(ceilf(fl(a))))
F(s32f, bits((float)si(a))) F(u64f, bits((float)a)) F(s64d, bits64((double)(int64_t)a)) F(f2d, bits64((double)fl(a))) F(d2f, bits((float)db(a)))
F(s8s32, (uint32_t)(int8_t)a) F(u8u32, (uint8_t)a) F(sat8, (uint8_t)clamp(si(a), 0, 255)) F(s32s64, (int64_t)si(a)) F(sats8, (uint32_t)clamp(si(a), -128, 127))
F(h2f, bits((float)half(a & 0xffff))) F(f2h, to_half(fl(a))) F(f2h2, to_half(fl(a)) << 16 | to_half(fl(b)))
F(addh, to_half(half(a & 0xffff) + half(b & 0xffff))) F(mulh2, to_half(half(a & 0xffff) * half(b & 0xffff)) | to_half(half(a >> 16 & 0xffff) * half(b >> 16 & 0xffff)) << 16)
F(fmah, to_half(half(a & 0xffff) * half(b & 0xffff) + half(c & 0xffff)))
F(pack, (a & 0xffff) | (b & 0xffff) << 16) F(selp, lo(c) & 1 ? lo(a) : lo(b)) F(slct, si(c) >= 0 ? lo(a) : lo(b))
F(carry, (a + b)) F(borrow, (a - b)) F(setlt, si(a) < si(b) ? UINT32_MAX : 0) F(ltu, fl(a) != fl(a) || fl(b) != fl(b) || fl(a) < fl(b)) F(eqand, si(a) <= si(b) && si(c) > 0)
#undef F

/* 32-bit sources are %r0-%r2, result %r3; 64: %x0-%x2, %x3; 16: %rs0-%rs2, %rs3; floats %f0.. %f3, %fd0.. */
static const struct { const char *text; formula *formula; } rows[] = {
    {"add.s32 %r3, %r0, %r1;", add32}, {"sub.u32 %r3, %r0, %r1;", sub32}, {"add.s64 %x3, %x0, %x1;", add64}, {"sub.u64 %x3, %x0, %x1;", sub64},
    {"add.s16 %rs3, %rs0, %rs1;", add16}, {"add.sat.s32 %r3, %r0, %r1;", addsat},
    {"mul.lo.s32 %r3, %r0, %r1;", mullo}, {"mul.hi.s32 %r3, %r0, %r1;", mulhis}, {"mul.hi.u32 %r3, %r0, %r1;", mulhiu},
    {"mul.wide.s32 %x3, %r0, %r1;", mulwides}, {"mul.wide.u32 %x3, %r0, %r1;", mulwideu}, {"mul.lo.s64 %x3, %x0, %x1;", mul64},
    {"mul.hi.u64 %x3, %x0, %x1;", mulhi64}, {"mul.hi.s64 %x3, %x0, %x1;", mulhis64}, {"mul.wide.s16 %r3, %rs0, %rs1;", wide16},
    {"mad.lo.s32 %r3, %r0, %r1, %r2;", madlo}, {"mad.hi.u32 %r3, %r0, %r1, %r2;", madhi}, {"mad.wide.s32 %x3, %r0, %r1, %x2;", madwide}, {"mad.lo.s64 %x3, %x0, %x1, %x2;", mad64},
    {"div.s32 %r3, %r0, %r1;", divs}, {"div.u32 %r3, %r0, %r1;", divu}, {"rem.s32 %r3, %r0, %r1;", rems}, {"rem.u64 %x3, %x0, %x1;", remu64},
    {"min.s32 %r3, %r0, %r1;", mins}, {"max.u32 %r3, %r0, %r1;", maxu}, {"min.s64 %x3, %x0, %x1;", min64}, {"max.s16 %rs3, %rs0, %rs1;", maxs16},
    {"abs.s32 %r3, %r0;", abs32}, {"neg.s64 %x3, %x0;", neg64}, {"not.b32 %r3, %r0;", not32}, {"and.b64 %x3, %x0, %x1;", and64}, {"or.b32 %r3, %r0, %r1;", or32},
    {"xor.b16 %rs3, %rs0, %rs1;", xor16}, {"cnot.b32 %r3, %r0;", cnot}, {"lop3.b32 %r3, %r0, %r1, %r2, 0x6a;", lop}, {"lop3.b32 %r3, %r0, %r1, %r2, 232;", lopmaj},
    {"shl.b32 %r3, %r0, %r1;", shl32}, {"shr.u32 %r3, %r0, %r1;", shr32}, {"shr.s32 %r3, %r0, %r1;", sar32}, {"shl.b64 %x3, %x0, %r1;", shl64}, {"shr.s64 %x3, %x0, %r1;", sar64}, {"shr.s16 %rs3, %rs0, %r1;", sar16},
    {"shf.l.wrap.b32 %r3, %r0, %r1, %r2;", shfl}, {"shf.r.clamp.b32 %r3, %r0, %r1, %r2;", shfr}, {"prmt.b32 %r3, %r0, %r1, %r2;", prmt},
    {"bfe.u32 %r3, %r0, %r1, %r2;", bfeu}, {"bfe.s32 %r3, %r0, %r1, %r2;", bfes}, {"bfi.b32 %r3, %r0, %r1, %r2, 7;", bfi},
    {"clz.b32 %r3, %r0;", clz}, {"popc.b64 %r3, %x0;", popc64}, {"bfind.u32 %r3, %r0;", bfind}, {"brev.b32 %r3, %r0;", brev}, {"dp4a.s32.u32 %r3, %r0, %r1, %r2;", dp4a}, {"sad.s32 %r3, %r0, %r1, %r2;", sad},
    {"add.f32 %f3, %f0, %f1;", addf}, {"sub.rn.f32 %f3, %f0, %f1;", subf}, {"mul.f32 %f3, %f0, %f1;", mulf}, {"fma.rn.f32 %f3, %f0, %f1, %f2;", fmaf_}, {"div.rn.f32 %f3, %f0, %f1;", divf},
    {"min.f32 %f3, %f0, %f1;", minf}, {"abs.f32 %f3, %f0;", absf}, {"neg.f32 %f3, %f0;", negf}, {"copysign.f32 %f3, %f0, %f1;", copysignf_},
    {"add.f64 %fd3, %fd0, %fd1;", addd}, {"fma.rn.f64 %fd3, %fd0, %fd1, %fd2;", fmad}, {"sqrt.rn.f32 %f3, %f0;", sqrtf_}, {"rcp.rn.f32 %f3, %f0;", rcpf}, {"sqrt.rn.f64 %fd3, %fd0;", sqrtd},
    {"cvt.rni.s32.f32 %r3, %f0;", rnis}, {"cvt.rzi.u32.f32 %r3, %f0;", rziu}, {"cvt.rmi.f32.f32 %f3, %f0;", rmif}, {"cvt.rpi.f32.f32 %f3, %f0;", rpif},
    {"cvt.rn.f32.s32 %f3, %r0;", s32f}, {"cvt.rn.f32.u64 %f3, %x0;", u64f}, {"cvt.rn.f64.s64 %fd3, %x0;", s64d}, {"cvt.f64.f32 %fd3, %f0;", f2d}, {"cvt.rn.f32.f64 %f3, %fd0;", d2f},
    {"cvt.s8.s32 %r3, %r0;", s8s32}, {"cvt.u8.u32 %r3, %r0;", u8u32}, {"cvt.sat.u8.s32 %r3, %r0;", sat8}, {"cvt.sat.s8.s32 %r3, %r0;", sats8}, {"cvt.s64.s32 %x3, %r0;", s32s64},
    {"cvt.f32.f16 %f3, %rs0;", h2f}, {"cvt.rn.f16.f32 %rs3, %f0;", f2h}, {"cvt.rn.f16x2.f32 %r3, %f0, %f1;", f2h2},
    {"add.f16 %rs3, %rs0, %rs1;", addh}, {"mul.rn.f16x2 %r3, %r0, %r1;", mulh2}, {"fma.rn.f16 %rs3, %rs0, %rs1, %rs2;", fmah},
    {"mov.b32 %r3, {%rs0, %rs1};", pack}, {"and.b32 %r4, %r2, 1; setp.ne.s32 %p0, %r4, 0; selp.b32 %r3, %r0, %r1, %p0;", selp}, {"slct.b32.s32 %r3, %r0, %r1, %r2;", slct},
    {"mov.b64 {%r4, %r5}, %x0; mov.b64 {%r6, %r7}, %x1; add.cc.u32 %r8, %r4, %r6; addc.u32 %r9, %r5, %r7; mov.b64 %x3, {%r8, %r9};", carry},
    {"mov.b64 {%r4, %r5}, %x0; mov.b64 {%r6, %r7}, %x1; sub.cc.u32 %r8, %r4, %r6; subc.u32 %r9, %r5, %r7; mov.b64 %x3, {%r8, %r9};", borrow},
    {"set.lt.u32.s32 %r3, %r0, %r1;", setlt}, {"setp.ltu.f32 %p0, %f0, %f1; selp.b32 %r3, 1, 0, %p0;", ltu},
    {"setp.gt.s32 %p1, %r2, 0; setp.le.and.s32 %p0, %r0, %r1, %p1; selp.b32 %r3, 1, 0, %p0;", eqand},
};
/* clang-format on */

static const uint64_t awkward[] = {0,
                                   1,
                                   31,
                                   32,
                                   0x3c00,
                                   0x7c00,
                                   0x7e01,
                                   0x8000,
                                   0x7fffffff,
                                   0x80000000,
                                   0xffffffff,
                                   0x3f800000,
                                   0x7f800000,
                                   0x7fc12345,
                                   0x00000123,
                                   0x477fefff,
                                   0x4f000000,
                                   UINT64_C(0x8000000000000000),
                                   UINT64_C(0x7fffffffffffffff),
                                   UINT64_MAX};

static const char load[] =
    "mov.b64 %x0, %a0; mov.b64 %x1, %a1; mov.b64 %x2, %a2; mov.b64 %x3, 0;\n"
    "cvt.u32.u64 %r0, %a0; cvt.u32.u64 %r1, %a1; cvt.u32.u64 %r2, %a2; mov.b32 %r3, 0;\n"
    "cvt.u16.u64 %rs0, %a0; cvt.u16.u64 %rs1, %a1; cvt.u16.u64 %rs2, %a2; mov.b16 %rs3, 0;\n"
    "mov.b32 %f0, %r0; mov.b32 %f1, %r1; mov.b32 %f2, %r2; mov.b32 %f3, 0f00000000;\n"
    "mov.b64 %fd0, %a0; mov.b64 %fd1, %a1; mov.b64 %fd2, %a2;\n";

/* Where the first destination goes. */
static const char *store_of(const char *text)
{
    return strstr(text, "%rs3") != NULL   ? "cvt.u64.u16 %d0, %rs3;"
           : strstr(text, "%x3") != NULL  ? "mov.b64 %d0, %x3;"
           : strstr(text, "%fd3") != NULL ? "mov.b64 %d0, %fd3;"
           : strstr(text, "%f3") != NULL  ? "mov.b32 %r3, %f3; cvt.u64.u32 %d0, %r3;"
                                          : "cvt.u64.u32 %d0, %r3;";
}

Test(scalar, each_instruction_gives_its_formula)
{
    static bench b;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        char body[2000];
        bench_start(&b, i + 1);
        b.threads = 1024;
        const size_t count = sizeof awkward / sizeof awkward[0];
        for (size_t j = 0; j < count * count; ++j) {
            b.in[j][0] = awkward[j / count];
            b.in[j][1] = awkward[j % count];
            b.in[j][2] = awkward[(j * 7) % count];
        }
        /* Small shifts, positions and exponents near each other. */
        for (size_t j = count * count; j < 700; ++j) {
            b.in[j][1] &= 63;
            b.in[j][2] &= 31;
        }
        for (size_t j = 700; j < 1024; ++j) {
            for (int w = 0; w < 3; ++w) {
                b.in[j][w] =
                    (b.in[j][w] & UINT64_C(0x800fffff80ff83ff)) | UINT64_C(0x3ff000003f003c00);
            }
        }
        snprintf(body, sizeof body, "%s%s\n%s\n", load, rows[i].text, store_of(rows[i].text));
        cr_assert(bench_run(&b, body), "%s: %s%s", rows[i].text, b.log, b.report.text);
        for (size_t j = 0; j < b.threads; ++j) {
            const uint64_t *in = b.in[j];
            const uint64_t want = rows[i].formula(in[0], in[1], in[2]);
            cr_assert_eq(b.out[j][0], want, "%s of 0x%llx 0x%llx 0x%llx: 0x%llx, should be 0x%llx",
                         rows[i].text, (unsigned long long)in[0], (unsigned long long)in[1],
                         (unsigned long long)in[2], (unsigned long long)b.out[j][0],
                         (unsigned long long)want);
        }
    }
}
