import type { BillLine } from '../shared/billLine.ts';
import type { VendorPrice, VendorRates } from '../shared/vendorPrice.ts';
import type { BillEntry } from './bill.ts';

const PER_MILLION = 1_000_000n;
/** Names of the standard conditions, which vendors write in several ways. */
const STANDARD = new Set(['', 'default', 'standard', 'auto', 'global']);

/** What this vendor charges for an entry of its bill, in nano-USD. Throws if its price list lacks a model or a tool. */
export function costOf(entry: BillEntry, prices: Readonly<Record<string, VendorPrice>>): bigint {
  let cost = costOfLine(entry, entry, prices);
  for (const line of entry.extraLines) cost += costOfLine(line, entry, prices);
  for (const [tool, uses] of Object.entries(entry.toolUses)) {
    const price = priceOf(entry.model, prices).tools?.[tool];
    if (price === undefined)
      throw new Error(`the vendor has no price for the tool ${tool} of ${entry.model}`);
    cost += BigInt(uses) * price;
  }
  return cost;
}

function costOfLine(
  line: BillLine,
  conditions: Pick<BillEntry, 'serviceTier' | 'speed' | 'geography'>,
  prices: Readonly<Record<string, VendorPrice>>,
): bigint {
  const rates = ratesOf(priceOf(line.model, prices), conditions, line.inputTokens);
  const { cacheRead = rates.input, cacheWrite = rates.input } = rates;
  const cachedText = line.cachedInputTokens - line.cachedAudioTokens;
  const written = line.cacheWriteTokens + line.cacheWrite1hTokens;
  const text =
    line.inputTokens - line.cachedInputTokens - written - line.inputAudioTokens - line.inputImageTokens;
  const outputText = line.outputTokens - line.outputAudioTokens - line.outputImageTokens;
  const items: [number, bigint][] = [
    [text, rates.input],
    [cachedText, cacheRead],
    [line.cachedAudioTokens, rates.cacheReadAudio ?? cacheRead],
    [line.cacheWriteTokens, cacheWrite],
    [line.cacheWrite1hTokens, rates.cacheWrite1h ?? cacheWrite],
    [line.inputAudioTokens, rates.inputAudio ?? rates.input],
    [line.inputImageTokens, rates.inputImage ?? rates.input],
    [outputText, rates.output],
    [line.outputAudioTokens, rates.outputAudio ?? rates.output],
    [line.outputImageTokens, rates.outputImage ?? rates.output],
  ];
  const total = items.reduce((sum, [tokens, rate]) => sum + BigInt(tokens) * rate, 0n);
  return (total + PER_MILLION / 2n) / PER_MILLION;
}

function priceOf(model: string, prices: Readonly<Record<string, VendorPrice>>): VendorPrice {
  const price = prices[model];
  if (!price) throw new Error(`the vendor has no price for ${model}`);
  return price;
}

function ratesOf(
  price: VendorPrice,
  asked: Pick<BillEntry, 'serviceTier' | 'speed' | 'geography'>,
  inputTokens: number,
): VendorRates {
  const isSame = (one = '', other = '') => (STANDARD.has(one) ? STANDARD.has(other) : one === other);
  const conditioned =
    price.variants?.find(
      ({ serviceTier, speed, geography }) =>
        isSame(serviceTier, asked.serviceTier) &&
        isSame(speed, asked.speed) &&
        isSame(geography, asked.geography),
    ) ?? price;
  const tiers = [...(conditioned.tiers ?? [])].sort((a, b) => b.aboveInputTokens - a.aboveInputTokens);
  return tiers.find(({ aboveInputTokens }) => inputTokens > aboveInputTokens) ?? conditioned;
}
