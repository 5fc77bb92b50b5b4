export * from './cacheRule.ts';
export * from './cloudConnectors.ts';
export * from './price.ts';
export * from './profile.ts';
export * from './resolvedKey.ts';
export * from './routes.ts';
export * from './routingTable.ts';
