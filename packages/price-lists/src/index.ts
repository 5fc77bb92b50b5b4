export { genaiPricesEntries, isGenaiPrices } from './genaiPrices.ts';
export {
  type ListEntry,
  ListEntryError,
  type ListedConditions,
  type ListedModel,
  type ListedPrice,
  type ListedRates,
  type ListedTier,
  wholeTiers,
} from './listedPrice.ts';
export { isLiteLlm, litellmEntries } from './litellm.ts';
export { isLiteLlmPrice, litellmConditions, litellmPrice } from './litellmPrice.ts';
export { isModelsDev, modelsDevEntries } from './modelsDev.ts';
