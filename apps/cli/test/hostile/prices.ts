import type { VendorPrice, VendorRates } from '@weighbridge/mock-vendor';

/** Nano-USD per million tokens of one micro-USD per token. Whole multiples of it, so that no cost is rounded. */
const MICRO = 1_000_000_000n;

const rates = (times: bigint): VendorRates => ({
  input: 1n * MICRO * times,
  output: 4n * MICRO * times,
  cacheRead: 1n * MICRO * times,
  cacheWrite: 2n * MICRO * times,
  cacheWrite1h: 3n * MICRO * times,
});
const media = (times: bigint) => ({
  inputAudio: 8n * MICRO * times,
  inputImage: 5n * MICRO * times,
  cacheReadAudio: 2n * MICRO * times,
  outputAudio: 16n * MICRO * times,
  outputImage: 12n * MICRO * times,
});

/** A model with a price in every dimension. Conditions that cost more than the standard ones, and a tool of each kind. */
const FULL: VendorPrice = {
  ...rates(1n),
  ...media(1n),
  tiers: [{ aboveInputTokens: 200_000, ...rates(2n), ...media(2n) }],
  variants: [
    { serviceTier: 'priority', ...rates(2n), ...media(2n) },
    { serviceTier: 'flex', ...rates(1n), ...media(1n) },
    { speed: 'fast', ...rates(6n), ...media(6n) },
    { geography: 'us', ...rates(3n), ...media(3n) },
  ],
  tools: {
    web_search: 10_000_000n,
    google_search: 14_000_000n,
    google_maps: 25_000_000n,
    web_fetch: 1_000_000n,
    code_interpreter: 30_000_000n,
    code_interpreter_4g: 120_000_000n,
    code_interpreter_16g: 480_000_000n,
    code_interpreter_64g: 1_920_000_000n,
    shell: 30_000_000n,
    shell_4g: 120_000_000n,
    shell_16g: 480_000_000n,
    shell_64g: 1_920_000_000n,
    code_execution: 30_000_000n,
    file_search: 2_500_000n,
    image_generation: 0n,
    advisor: 0n,
    mcp: 0n,
    computer_use: 0n,
  },
};

/** Ten times as expensive as the others. */
const DEAR: VendorPrice = { ...FULL, ...rates(10n), ...media(10n), tiers: [], variants: [] };
/** A model whose list lacks what the vendor charges for. */
const SHORT_LISTED: VendorPrice = rates(1n);

/** By the name at the vendor. Every simulator has the whole list. */
export const VENDOR_PRICES: Readonly<Record<string, VendorPrice>> = {
  plain: FULL,
  dear: DEAR,
  // Its context window costs next to nothing.
  small: FULL,
  'gpt-image-1': DEAR,
  // It charges double for priority, and the catalog does not know it.
  surprise: {
    ...SHORT_LISTED,
    tools: { web_search: 10_000_000n },
    variants: [{ serviceTier: 'priority', ...rates(2n) }],
  },
};

/** What the operator enters for a model of a provider: the vendor's list, but for `surprise`. */
export function catalogPrice(name: string): object {
  return apiPrice(name === 'surprise' ? SHORT_LISTED : (VENDOR_PRICES[name] as VendorPrice));
}

function apiPrice({ variants, tools, tiers, ...list }: VendorPrice): object {
  return {
    ...apiRates(list),
    ...(tiers && { tiers: tiers.map(apiTier) }),
    ...(variants && {
      variants: variants.map(({ serviceTier, speed, geography, tiers: own, ...one }) => ({
        ...(serviceTier !== undefined && { service_tier: serviceTier }),
        ...(speed !== undefined && { speed }),
        ...(geography !== undefined && { geography }),
        ...apiRates(one),
        ...(own && { tiers: own.map(apiTier) }),
      })),
    }),
    ...(tools && {
      tool_prices: Object.fromEntries(Object.entries(tools).map(([name, nano]) => [name, money(nano)])),
    }),
  };
}

function apiTier({ aboveInputTokens, ...one }: VendorRates & { readonly aboveInputTokens: number }): object {
  return { above_input_tokens: aboveInputTokens, ...apiRates(one) };
}

function apiRates(one: VendorRates): object {
  return {
    input_price: money(one.input),
    output_price: money(one.output),
    ...optional('cache_read_price', one.cacheRead),
    ...optional('cache_write_price', one.cacheWrite),
    ...optional('cache_write_1h_price', one.cacheWrite1h),
    ...optional('input_audio_price', one.inputAudio),
    ...optional('input_image_price', one.inputImage),
    ...optional('cache_read_audio_price', one.cacheReadAudio),
    ...optional('output_audio_price', one.outputAudio),
    ...optional('output_image_price', one.outputImage),
  };
}

const optional = (field: string, nano: bigint | undefined) =>
  nano === undefined ? {} : { [field]: money(nano) };

function money(nano: bigint): object {
  return { currency_code: 'USD', units: Number(nano / MICRO), nanos: Number(nano % MICRO) };
}
