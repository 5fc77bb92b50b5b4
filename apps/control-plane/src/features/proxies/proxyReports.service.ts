/** What proxies report of themselves, for other features. */
export { findReportedConnectors, type ProxySums, sumProxies } from './proxies.repository.ts';
