import { type AlertCase, NAMESPACE, ofPod, onPod } from './alertCase.ts';

const USED = ofPod('weighbridge_spool_used_bytes');
const MAX = ofPod('weighbridge_spool_max_bytes');
const DAMAGED = ofPod('weighbridge_spool_damaged_records');
const UNCONFIRMED = ofPod('weighbridge_usage_unconfirmed_events');
const WATERMARK_AGE = ofPod('weighbridge_usage_mark_age_seconds');
const metering = (metric: string, labels = '') => ofPod(metric, 'metering-0', labels);
const LAG = metering('weighbridge_ledger_lag_seconds');
const UNMERGED = metering('weighbridge_ledger_unmerged_seconds');
const GAP = metering('weighbridge_ledger_longest_gap_seconds');
const FORGED = metering('weighbridge_usage_forged_total');
const HELD = metering('weighbridge_quarantine_held');
const LOST = metering(
  'weighbridge_lost_producer_seconds',
  'name="weighbridge-data-plane-7",producer_id="0d5c8a4e"',
);
const DIFFERENCE = 'weighbridge_ledger_difference_nano_usd';
const UPKEEP = metering('weighbridge_ledger_upkeep_failures_total', 'task="partitions"');
const UNREADABLE = ofPod('weighbridge_archive_unreadable_files', 'control-plane-0');
const FAILURES = metering('weighbridge_usage_failures_total', 'shard="3"');
const GIB = 1024 ** 3;

/** The alerts of the groups `spool` and `metering`. */
export const USAGE_CASES: readonly AlertCase[] = [
  {
    alert: 'WeighbridgeSpoolFilling',
    fires: {
      series: { [MAX]: `${GIB}+0x20`, [USED]: `${GIB * 0.6}+0x20` },
      at: '10m',
      labels: onPod(),
      says: 'The spool of weighbridge-data-plane-0 is 60% full. When it is full, the proxy refuses priced requests.',
    },
    quiet: { series: { [MAX]: `${GIB}+0x20`, [USED]: `${GIB * 0.4}+0x20` }, at: '10m' },
  },
  {
    alert: 'WeighbridgeSpoolFull',
    fires: {
      series: { [MAX]: `${GIB}+0x20`, [USED]: `${GIB}+0x20` },
      at: '3m',
      labels: onPod(),
      says: 'The spool of weighbridge-data-plane-0 is 100% full.',
    },
    quiet: { series: { [MAX]: `${GIB}+0x20`, [USED]: `${GIB * 0.6}+0x20` }, at: '10m' },
  },
  {
    alert: 'WeighbridgeSpoolDamaged',
    fires: {
      series: { [DAMAGED]: '2+0x5' },
      at: '1m',
      labels: onPod(),
      says: 'weighbridge-data-plane-0 found 2 unreadable places. Their usage may be missing in the ledger.',
    },
    quiet: { series: { [DAMAGED]: '0+0x5' }, at: '1m' },
  },
  {
    alert: 'WeighbridgeUsageUnconfirmed',
    fires: {
      series: { [UNCONFIRMED]: '200000+0x30' },
      at: '20m',
      labels: onPod(),
      says: 'At least 200000 usage events of weighbridge-data-plane-0 were not acked for ten minutes.',
    },
    // Peaks that are sent in time.
    quiet: { series: { [UNCONFIRMED]: '200000+0x8 10+0x3 200000+0x8 10+0x9' }, at: '20m' },
  },
  {
    alert: 'WeighbridgeUsageMarkOld',
    fires: {
      series: { [WATERMARK_AGE]: '0+60x30' },
      at: '20m',
      labels: onPod(),
      says: 'What weighbridge-data-plane-0 settled 20m 0s ago is not in the ledger. Reports are that old. Nothing is lost while its spool has space.',
    },
    quiet: { series: { [WATERMARK_AGE]: '30+0x30' }, at: '20m' },
  },
  {
    alert: 'WeighbridgeLedgerLags',
    fires: {
      series: { [LAG]: '0+60x30' },
      at: '10m',
      labels: { namespace: NAMESPACE },
      says: 'The ledger is known to be complete only up to 10m 0s ago.',
    },
    quiet: { series: { [LAG]: '90+0x30' }, at: '10m' },
  },
  {
    alert: 'WeighbridgeLedgerFarBehind',
    fires: {
      series: { [LAG]: '0+60x40' },
      at: '30m',
      labels: { namespace: NAMESPACE },
      says: 'The ledger is known to be complete only up to 30m 0s ago. Budgets still hold, by what proxies have leased.',
    },
    quiet: { series: { [LAG]: '600+0x40' }, at: '30m' },
  },
  {
    alert: 'WeighbridgeSpendUnmerged',
    fires: {
      series: { [UNMERGED]: '0+60x9' },
      at: '5m',
      labels: { namespace: NAMESPACE },
      says: 'The oldest of it has waited for 5m 0s. Budgets still hold: leases count it.',
    },
    // A worker died, and the next one started.
    quiet: { series: { [UNMERGED]: '0 40 0+0x9' }, at: '2m' },
  },
  {
    alert: 'WeighbridgeLedgerGap',
    fires: {
      series: { [GAP]: '0+60x9' },
      at: '5m',
      labels: { namespace: NAMESPACE },
      says: 'The oldest gap is 5m 0s old.',
    },
    // Events arrived out of order.
    quiet: { series: { [GAP]: '0 40 0+0x9' }, at: '2m' },
  },
  {
    alert: 'WeighbridgeUsageQuarantined',
    fires: {
      series: { [HELD]: '0 3+0x20' },
      at: '10m',
      labels: { namespace: NAMESPACE },
      says: '3 entries are in quarantine, and spend is reported as incomplete. `weighbridge quarantine list` shows them.',
    },
    quiet: { series: { [HELD]: '0+0x20' }, at: '10m' },
  },
  {
    alert: 'WeighbridgeUsageForged',
    fires: {
      series: { [FORGED]: '0 0 4+0x20' },
      at: '5m',
      labels: { namespace: NAMESPACE },
      says: 'At least 4 messages in ten minutes named a producer that did not sign them. The log of metering names it.',
    },
    quiet: { series: { [FORGED]: '4+0x20' }, at: '15m' },
  },
  {
    alert: 'WeighbridgeProducerLost',
    fires: {
      series: { [LOST]: '0+60x20' },
      at: '10m',
      labels: { namespace: NAMESPACE, name: 'weighbridge-data-plane-7', producer_id: '0d5c8a4e' },
      says: 'The spool 0d5c8a4e of the proxy weighbridge-data-plane-7 is lost. Where its folder is, `weighbridge spool replay DIR` sends what it holds.',
    },
    // The spool was replayed, and its series ended.
    quiet: { series: { [LOST]: '0+60x7 stale' }, at: '10m' },
  },
  {
    alert: 'WeighbridgeLedgerDiffers',
    fires: {
      series: { [metering(DIFFERENCE)]: '0+0x5', [ofPod(DIFFERENCE, 'metering-1')]: '-12+0x5' },
      at: '1m',
      labels: { namespace: NAMESPACE },
      says: 'The difference is 12 nano-USD. `weighbridge ledger rebuild` shows where.',
    },
    quiet: { series: { [metering(DIFFERENCE)]: '0+0x5' }, at: '1m' },
  },
  {
    alert: 'WeighbridgeUpkeepFails',
    fires: {
      series: { [UPKEEP]: '1+1x30' },
      at: '25m',
      labels: { namespace: NAMESPACE, task: 'partitions' },
      says: 'The task is partitions.',
    },
    // It failed once, then succeeded.
    quiet: { series: { [UPKEEP]: '0+0x5 1+0x30' }, at: '20m' },
  },
  {
    alert: 'WeighbridgeArchiveUnreadable',
    fires: {
      series: { [UNREADABLE]: '0+0x2 3+0x10' },
      at: '10m',
      labels: { namespace: NAMESPACE },
      says: 'Reports that need one of 3 files fail. No usage is lost or counted twice. `weighbridge doctor` names them.',
    },
    // Out of reach for a minute.
    quiet: { series: { [UNREADABLE]: '0+0x2 3 0+0x10' }, at: '10m' },
  },
  {
    alert: 'WeighbridgeMeteringStuck',
    fires: {
      series: { [FAILURES]: '1+4x30' },
      at: '20m',
      labels: { namespace: NAMESPACE, shard: '3' },
      says: 'The database refuses the batches of shard 3. Usage waits in the stream and in the spools. Nothing is lost while they have space.',
    },
    // Postgres was restarted.
    quiet: { series: { [FAILURES]: '0+0x5 3+0x30' }, at: '12m' },
  },
];
