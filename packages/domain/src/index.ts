export * from './attribution.ts';
export * from './ids.ts';
export * from './keyToken.ts';
export * from './modelId.ts';
export * from './money.ts';
export * from './pricing.ts';
export * from './tokenUsage.ts';
export * from './windows.ts';
