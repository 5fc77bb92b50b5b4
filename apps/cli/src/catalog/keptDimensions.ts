import { isDeepStrictEqual } from 'node:util';
import { MEDIA_CLASSES, PRICE_FIELDS } from '@weighbridge/domain';
import type { Json } from '../apply/desiredState.ts';
import type { ImportedPrice } from './importedModel.ts';

/**
 * An imported price with what its list does not know and the current price does: prices of tools and, as long as the list
 * price is the same, of modalities and conditions of service. Most lists have text prices only, and usage without a price
 * is charged at the dearest known one.
 */
export function withKeptDimensions(imported: ImportedPrice, current: Json | undefined): Json {
  if (!current) return { ...imported };
  const tool_prices = { ...(current.tool_prices as Json), ...imported.tool_prices };
  const tools = Object.keys(tool_prices).length > 0 && { tool_prices };
  const isSameList =
    isDeepStrictEqual(imported.input_price, current.input_price) &&
    isDeepStrictEqual(imported.output_price, current.output_price);
  if (!isSameList) return { ...imported, ...tools };
  const media = Object.entries(current).filter(
    ([name, price]) => MEDIA.includes(name) && price !== null && !(name in imported),
  );
  return {
    ...imported,
    ...Object.fromEntries(media),
    ...(!imported.variants && { variants: current.variants }),
    ...tools,
  };
}

const MEDIA: readonly string[] = MEDIA_CLASSES.map((media) => PRICE_FIELDS[media]);
