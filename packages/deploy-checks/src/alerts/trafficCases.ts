import { type AlertCase, histogram, NAMESPACE, ofPod, onPod } from './alertCase.ts';

const CONNECTOR = 'connector="con_1"';
const state = (pod: string) => ofPod('weighbridge_connector_state', pod, CONNECTOR);
const attempts = (outcome: string) =>
  ofPod('weighbridge_attempts_total', 'data-plane-0', `${CONNECTOR},outcome="${outcome}"`);
const requests = (outcome: string) =>
  ofPod(
    'weighbridge_requests_total',
    'data-plane-0',
    `endpoint="messages",model="openai/gpt-5",outcome="${outcome}"`,
  );
const PIN_ERRORS = ofPod('weighbridge_pin_store_errors_total');
const CACHE_ERRORS = ofPod('weighbridge_response_cache_errors_total', 'data-plane-0', 'operation="get"');
const EXCEEDED = ofPod('weighbridge_reserve_exceeded_total', 'data-plane-0', 'model="openai/gpt-5"');
const USED = ofPod('weighbridge_budget_used_ratio', 'metering-0', 'policy="pol_1"');
const COST = ofPod('weighbridge_cost_usd_total', 'data-plane-0', `${CONNECTOR},model="openai/gpt-5"`);
const ESTIMATED = ofPod('weighbridge_cost_estimated_usd_total', 'data-plane-0', 'model="openai/gpt-5"');
const UNPRICED = ofPod(
  'weighbridge_unpriced_usage_total',
  'data-plane-0',
  'model="openai/gpt-5",field="service_tier"',
);
const UNAUTHORIZED = ofPod('weighbridge_connector_unauthorized_total', 'data-plane-0', CONNECTOR);
const FEED_AGE = ofPod('weighbridge_catalog_feed_age_seconds', 'control-plane-0');
const STREAMED = 'endpoint="messages"';
const atConnector = { namespace: NAMESPACE, connector: 'con_1' };

/** The alerts of the groups `vendors`, `budgets` and `traffic`. */
export const TRAFFIC_CASES: readonly AlertCase[] = [
  {
    alert: 'WeighbridgeConnectorDead',
    fires: {
      series: { [state('data-plane-0')]: '0+0x9', [state('data-plane-1')]: '0 3+0x9' },
      at: '4m',
      labels: atConnector,
      says: 'The connector con_1 gets only probes.',
    },
    quiet: { series: { [state('data-plane-0')]: '2+0x9' }, at: '4m' },
  },
  {
    alert: 'WeighbridgeConnectorUnauthorized',
    fires: {
      series: { [UNAUTHORIZED]: '_x10 1+0x20' },
      at: '15m',
      labels: atConnector,
      says: '1 attempts at the connector con_1 were refused with 401 or 403. Callers without another connector get 502.',
    },
    quiet: { series: { [UNAUTHORIZED]: '1+0x200' }, at: '3h' },
  },
  {
    alert: 'WeighbridgeConnectorOpen',
    fires: {
      series: { [state('data-plane-0')]: '2+0x19' },
      at: '10m',
      labels: atConnector,
      says: 'The circuit breaker of the connector con_1 is open.',
    },
    // One bad minute.
    quiet: { series: { [state('data-plane-0')]: '0+0x5 2 1 0+0x9' }, at: '10m' },
  },
  {
    alert: 'WeighbridgeVendorErrors',
    fires: {
      series: { [attempts('server_error')]: '0+30x40', [attempts('success')]: '0+70x40' },
      at: '25m',
      labels: atConnector,
      says: '30% of the attempts at the connector con_1 fail.',
    },
    // Invalid requests and disconnected clients are not the vendor's fault.
    quiet: {
      series: {
        [attempts('server_error')]: '0+10x40',
        [attempts('client_error')]: '0+50x40',
        [attempts('client_gone')]: '0+40x40',
      },
      at: '25m',
    },
  },
  {
    alert: 'WeighbridgeVendorLimits',
    fires: {
      series: { [attempts('rate_limited')]: '0+25x40', [attempts('success')]: '0+75x40' },
      at: '30m',
      labels: atConnector,
      says: '25% of the attempts at the connector con_1 get 429.',
    },
    quiet: {
      series: { [attempts('rate_limited')]: '0+10x40', [attempts('success')]: '0+90x40' },
      at: '30m',
    },
  },
  {
    alert: 'WeighbridgePinStoreFails',
    fires: {
      series: { [PIN_ERRORS]: '0+60x30' },
      at: '20m',
      labels: { namespace: NAMESPACE },
      says: 'The store fails 1 times per second. Sessions may change model.',
    },
    quiet: { series: { [PIN_ERRORS]: '0+3x30' }, at: '20m' },
  },
  {
    alert: 'WeighbridgeResponseCacheFails',
    fires: {
      series: { [CACHE_ERRORS]: '0+60x30' },
      at: '20m',
      labels: { namespace: NAMESPACE },
      says: 'It fails 1 times per second. Requests are served without it.',
    },
    quiet: { series: { [CACHE_ERRORS]: '0+3x30' }, at: '20m' },
  },
  {
    alert: 'WeighbridgeReserveExceeded',
    fires: {
      // A new counter starts at 1, which is not an increase yet.
      series: { [EXCEEDED]: '_x10 1+0x20' },
      at: '15m',
      labels: { namespace: NAMESPACE, model: 'openai/gpt-5' },
      says: 'The vendor of openai/gpt-5 exceeded its output limit 1 times. All of it is charged.',
    },
    quiet: { series: { [EXCEEDED]: '1+0x200' }, at: '3h' },
  },
  {
    alert: 'WeighbridgeBudgetNearLimit',
    fires: {
      series: { [USED]: '0.95+0x20' },
      at: '10m',
      labels: { namespace: NAMESPACE, policy: 'pol_1' },
      says: 'A counter of the policy pol_1 is at 95% of its limit.',
    },
    quiet: { series: { [USED]: '0.85+0x20' }, at: '10m' },
  },
  {
    alert: 'WeighbridgeCostEstimated',
    fires: {
      series: { [COST]: '0+10x120', [ESTIMATED]: '0+1x120' },
      at: '100m',
      labels: { namespace: NAMESPACE },
      says: 'For 10% of the cost of the last hour, the vendor reported no usage.',
    },
    quiet: { series: { [COST]: '0+100x120', [ESTIMATED]: '0+1x120' }, at: '100m' },
  },
  {
    alert: 'WeighbridgePriceIncomplete',
    fires: {
      // A new counter starts at 1, which is not an increase yet.
      series: { [UNPRICED]: '_x10 1+0x20' },
      at: '15m',
      labels: { namespace: NAMESPACE, model: 'openai/gpt-5', field: 'service_tier' },
      says: 'openai/gpt-5 has no price for the service_tier of 1 attempts. They were charged at the dearest known price.',
    },
    quiet: { series: { [UNPRICED]: '1+0x200' }, at: '3h' },
  },
  {
    alert: 'WeighbridgePriceFeedFails',
    fires: {
      series: { [FEED_AGE]: '345600+0x30' },
      at: '20m',
      labels: { namespace: NAMESPACE },
      says: 'It was last read 4d 0h 0m 0s ago. The prices in force stay.',
    },
    // An hour more than a day.
    quiet: { series: { [FEED_AGE]: '90000+0x30' }, at: '20m' },
  },
  {
    alert: 'WeighbridgeOwnFaults',
    fires: {
      series: { [requests('unavailable')]: '0+2x20', [requests('success')]: '0+98x20' },
      at: '15m',
      labels: { namespace: NAMESPACE },
      says: '2% of the requests get 500 or 503 from the service itself.',
    },
    // Refused by a budget, or failed by a vendor.
    quiet: {
      series: {
        [requests('fault')]: '0+0x20',
        [requests('budget')]: '0+20x20',
        [requests('vendor_error')]: '0+20x20',
        [requests('success')]: '0+60x20',
      },
      at: '15m',
    },
  },
  {
    alert: 'WeighbridgeErrorRatio',
    fires: {
      series: { [requests('vendor_error')]: '0+10x30', [requests('success')]: '0+90x30' },
      at: '25m',
      labels: { namespace: NAMESPACE },
      says: "10% of the requests fail, by the vendors' or the service's fault.",
    },
    quiet: {
      series: {
        [requests('vendor_error')]: '0+1x30',
        [requests('invalid')]: '0+50x30',
        [requests('success')]: '0+49x30',
      },
      at: '25m',
    },
  },
  {
    alert: 'WeighbridgeOverheadHigh',
    fires: {
      series: histogram('weighbridge_request_overhead_seconds', {
        share: 0.9,
        bound: 0.05,
        max: 0.5,
        labels: STREAMED,
      }),
      at: '20m',
      labels: { namespace: NAMESPACE },
      says: 'One in a hundred requests takes more than 455ms longer.',
    },
    quiet: {
      series: histogram('weighbridge_request_overhead_seconds', {
        share: 1,
        bound: 0.05,
        max: 0.5,
        labels: STREAMED,
      }),
      at: '20m',
    },
  },
  {
    alert: 'WeighbridgeFirstChunkSlow',
    fires: {
      series: histogram('weighbridge_time_to_first_chunk_seconds', {
        share: 0.5,
        bound: 10,
        max: 30,
        labels: STREAMED,
      }),
      at: '25m',
      labels: { namespace: NAMESPACE, endpoint: 'messages' },
      says: 'One in twenty messages streams waits more than 28s for its first chunk.',
    },
    quiet: {
      series: histogram('weighbridge_time_to_first_chunk_seconds', {
        share: 1,
        bound: 10,
        max: 30,
        labels: STREAMED,
      }),
      at: '25m',
    },
  },
  {
    alert: 'WeighbridgeMemoryBudgetFull',
    fires: {
      series: { [ofPod('weighbridge_memory_refusals_total', 'data-plane-0', 'use="request"')]: '0+120x15' },
      at: '12m',
      labels: onPod(),
      says: 'weighbridge-data-plane-0 refuses 2 requests per second with 503 memory_budget_exhausted.',
    },
    quiet: {
      series: { [ofPod('weighbridge_memory_refusals_total', 'data-plane-0', 'use="cache"')]: '0+120x15' },
      at: '12m',
    },
  },
];
