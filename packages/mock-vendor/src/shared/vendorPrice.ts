/** Nano-USD per million tokens. A class without a price costs what its larger class costs. */
export interface VendorRates {
  readonly input: bigint;
  readonly output: bigint;
  readonly cacheRead?: bigint;
  readonly cacheWrite?: bigint;
  readonly cacheWrite1h?: bigint;
  readonly inputAudio?: bigint;
  readonly inputImage?: bigint;
  readonly cacheReadAudio?: bigint;
  readonly outputAudio?: bigint;
  readonly outputImage?: bigint;
}

interface TieredRates extends VendorRates {
  /** The rates of the whole request if its input has more tokens. */
  readonly tiers?: readonly (VendorRates & { readonly aboveInputTokens: number })[];
}

/** The price of one model at this vendor. */
export interface VendorPrice extends TieredRates {
  /** The rates under other conditions. An absent condition is the standard one. */
  readonly variants?: readonly (TieredRates & {
    readonly serviceTier?: string;
    readonly speed?: string;
    readonly geography?: string;
  })[];
  /** Nano-USD per use. */
  readonly tools?: Readonly<Record<string, bigint>>;
}
