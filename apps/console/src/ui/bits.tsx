import { type ButtonHTMLAttributes, Fragment, type ReactNode, useState } from 'react';
import styles from './controls.module.css';
import { count, money, visible } from './text.ts';

/** Someone else's text. */
export function Name({ text }: { text: string }) {
  return <bdi>{inParts(text)}</bdi>;
}

export function Code({ text }: { text: string }) {
  return <code>{inParts(text)}</code>;
}

/** In a narrow column, an address or a path continues on the next line after one of its parts. */
function inParts(text: string): ReactNode {
  return visible(text)
    .split(/(?<=[@/:])|(?<=\.)(?=\S*@)/)
    .map((part, i) => (
      <Fragment key={i}>
        {i > 0 && <wbr />}
        {part}
      </Fragment>
    ));
}

const DAY = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' });
const DAY_OF_YEAR = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric' });
const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: 'short' });

/** A time in the reader's zone, with the year if it is another; the exact one is its title. */
export function Time({ at }: { at: string | null | undefined }) {
  if (!at) return <>–</>;
  const when = new Date(at);
  const day = when.getFullYear() === new Date().getFullYear() ? DAY_OF_YEAR : DAY;
  return (
    <time dateTime={at} title={at}>
      <span>{day.format(when)},</span> <span>{CLOCK.format(when)}</span>
    </time>
  );
}

/** Since when a window's spend is counted, and when it starts again. */
export function Since({ start, reset }: { start: string; reset: string | null }) {
  return (
    <>
      Since <Time at={start} />
      {reset && (
        <>
          {'; starts again '}
          <Time at={reset} />
        </>
      )}
      .
    </>
  );
}

export function Money({ micro }: { micro: number | null | undefined }) {
  return <>{micro === null || micro === undefined ? '–' : money(micro)}</>;
}

/** To the cent, for a glance; the exact amount is its title. Less than a dollar is exact. */
export function RoundMoney({ micro }: { micro: number }) {
  if (Math.abs(micro) < 1_000_000) return <>{money(micro)}</>;
  return <span title={money(micro)}>{money(Math.round(micro / 10_000) * 10_000)}</span>;
}

/** Input tokens, with those that a vendor's cache had or took. */
export function InputTokens({
  of: {
    input_tokens,
    cache_read_tokens: read,
    cache_write_tokens: written,
    cache_write_1h_tokens: writtenLong = 0,
  },
}: {
  of: {
    readonly input_tokens: number;
    readonly cache_read_tokens: number;
    readonly cache_write_tokens: number;
    readonly cache_write_1h_tokens?: number;
  };
}) {
  return (
    <>
      {count(input_tokens)}
      {read > 0 && <small>{count(read)} from cache</small>}
      {written + writtenLong > 0 && <small>{count(written + writtenLong)} to cache</small>}
    </>
  );
}

export type Tone = 'good' | 'bad' | 'warn' | 'plain';

export function Badge({ tone = 'plain', children }: { tone?: Tone; children: ReactNode }) {
  return (
    <span className={styles.badge} data-tone={tone}>
      {children}
    </span>
  );
}

type Kind = 'primary' | 'danger' | 'plain';

export function Button({
  kind = 'plain',
  small = false,
  ...rest
}: ButtonHTMLAttributes<HTMLButtonElement> & { kind?: Kind; small?: boolean }) {
  return <button type="button" {...rest} className={buttonClass(kind, small)} />;
}

export function buttonClass(kind: Kind, small: boolean): string {
  const classes = [styles.button, kind === 'plain' ? '' : styles[kind], small ? styles.small : ''];
  return classes.filter(Boolean).join(' ');
}

/** How much of a limit is spent. Beyond 80 % it warns. */
export function LimitBar({ spent, limit, label }: { spent: number; limit: number; label: string }) {
  return (
    <meter
      className={styles.bar}
      aria-label={label}
      min={0}
      max={Math.max(limit, 1)}
      low={0.8 * limit}
      high={limit}
      optimum={0}
      value={spent}
    />
  );
}

/** Buttons side by side. */
export function Actions({ start = false, children }: { start?: boolean; children: ReactNode }) {
  return (
    <div className={styles.actions} data-start={start || undefined}>
      {children}
    </div>
  );
}

/** Copies a text, and says that it did. */
export function CopyButton({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [done, setDone] = useState<string>();
  // Browsers have it only where the address is https or of this machine.
  const clipboard: Clipboard | undefined = navigator.clipboard;
  if (!clipboard) return null;
  const copy = () => void clipboard.writeText(text).then(() => setDone(text));
  return <Button onClick={copy}>{done === text ? 'Copied' : label}</Button>;
}
