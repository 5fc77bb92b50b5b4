/** What proxies report of themselves, for other features. */
export { findReportedConnectors, sumProxies } from './proxies.repository.ts';
