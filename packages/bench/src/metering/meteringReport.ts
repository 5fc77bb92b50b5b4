import { type Figure, formatFigure, formatTable } from '../shared/figures.ts';
import {
  type CpuFigures,
  FULL_BATCH_EVENTS,
  type MeteringFigures,
  type Ratios,
  SMALL_BATCH_EVENTS,
  type StreamFigures,
} from './metering.ts';

/** The target: metering's rate relative to raw SQL. */
const MIN_RATIO = 0.5;

/** The report as text. */
export function describeMetering(figures: MeteringFigures): string {
  const row = (name: string, rate: Figure, cpuOf: Partial<CpuFigures> | undefined) => [
    name,
    formatFigure(rate, 0),
    ...(['metering', 'postgres', 'nats'] as const).map((process) => {
      const micros = cpuOf?.[process];
      return micros ? formatFigure(micros, 1) : '';
    }),
  ];
  const rows = (name: string, { oneProducer, oneInSmall, manyProducers }: StreamFigures) => [
    row(`one producer, ${name}`, oneProducer.rate, oneProducer.cpu),
    row(`one, in small batches, ${name}`, oneInSmall.rate, oneInSmall.cpu),
    row(`${figures.producers} producers, ${name}`, manyProducers.rate, manyProducers.cpu),
  ];
  const { rawSql, beside, drained, alone } = figures;
  return [
    `${figures.events} events, ${figures.repeats} rounds: median (min–max)`,
    '',
    formatTable([
      ['', 'events/s', 'µs of CPU per event: metering', 'Postgres', 'NATS'],
      row('raw SQL', rawSql.rate, rawSql.postgres && { postgres: rawSql.postgres }),
      ...rows('beside', beside),
      ...rows('drained', drained),
      row('one of them alone', alone.rate, alone.cpu),
    ]),
    '',
    'beside: with the producers on the same machine at the same time; drained: all events were in the stream before',
    ...ratioLines('beside', beside, figures.producers),
    ...ratioLines('drained', drained, figures.producers),
    `an event of ${figures.producers} producers / of one of them alone, at its own pace: ${
      alone.manyByIt ? formatFigure(alone.manyByIt, 2) : 'unknown'
    } of the CPU of metering and Postgres`,
    'the ledger had every event once, and every bucket was the sum of its events',
  ].join('\n');
}

function ratioLines(name: string, { ratio, manyByOne, manyByOneInSmall }: StreamFigures, producers: number) {
  return [
    `${name}: one producer / raw SQL: ${formatFigure(ratio, 2)}, at least ${MIN_RATIO}`,
    `  an event of ${producers} producers in batches of ${SMALL_BATCH_EVENTS}`,
    `    / of one in batches of ${FULL_BATCH_EVENTS}: ${times(manyByOne)}`,
    `    / of one in batches of ${SMALL_BATCH_EVENTS}: ${times(manyByOneInSmall)}`,
  ];
}

function times({ wall, cpu }: Ratios): string {
  const cpuText = cpu ? `, ${formatFigure(cpu, 2)} of the CPU of metering and Postgres` : '';
  return `${formatFigure(wall, 2)} of the time${cpuText}`;
}
