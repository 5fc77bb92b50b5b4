import type { UseQueryResult } from '@tanstack/react-query';
import { ApiError } from '@weighbridge/client';
import { type ReactNode, useEffect } from 'react';
import { Actions, Button, Code } from './bits.tsx';
import styles from './page.module.css';
import { visible } from './text.ts';

/** A page: its heading, what one can do on it, and its title in the browser. */
export function Page({
  title,
  lead,
  actions,
  children,
}: {
  title: string;
  lead?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}) {
  useEffect(() => {
    document.title = `${visible(title)} · Weighbridge`;
  }, [title]);
  return (
    <>
      <header className={styles.header}>
        <div>
          <h1>{visible(title)}</h1>
          {lead !== undefined && <p className={styles.lead}>{lead}</p>}
        </div>
        {actions}
      </header>
      {children}
    </>
  );
}

export function Section({
  title,
  actions,
  children,
}: {
  title: string;
  actions?: ReactNode;
  children: ReactNode;
}) {
  return (
    <section className={styles.section}>
      <header className={styles.sectionHeader}>
        <h2>{title}</h2>
        {actions}
      </header>
      {children}
    </section>
  );
}

export function Note({ children }: { children: ReactNode }) {
  return <div className={styles.note}>{children}</div>;
}

/** A smaller question, for one that took too long. */
export interface Narrower {
  readonly label: string;
  readonly run: () => void;
}

const TOOK_TOO_LONG: readonly string[] = ['query_too_broad', 'no_answer_yet'];

/** A failure: what happened, and what to do next. */
export function Problem({
  error,
  onRetry,
  narrower,
}: {
  error: unknown;
  onRetry?: () => void;
  narrower?: Narrower | undefined;
}) {
  const known = error instanceof ApiError ? error : undefined;
  const isTooBroad = TOOK_TOO_LONG.includes(known?.code ?? '') && narrower !== undefined;
  return (
    <div className={`${styles.note} ${styles.problem}`} role="alert">
      <p>{visible(known?.message ?? 'This page failed. Reload it; if it fails again, report it.')}</p>
      {known && (
        <p>
          <Code text={known.code} />
          {known.request_id !== undefined && (
            <>
              {' · request '}
              <Code text={known.request_id} />
            </>
          )}
        </p>
      )}
      <Actions start>
        {isTooBroad && (
          <Button kind="primary" onClick={narrower.run}>
            {narrower.label}
          </Button>
        )}
        {onRetry && known?.status !== 403 && <Button onClick={onRetry}>Try again</Button>}
      </Actions>
    </div>
  );
}

/** What is shown was true once, or is not all: asking again failed. */
export function Stale({ error, onRetry }: { error: unknown; onRetry: () => void }) {
  const why = error instanceof ApiError ? error.message : 'The answer could not be read.';
  return (
    <p className={styles.stale} role="status">
      Not up to date: {visible(why)}{' '}
      <Button small onClick={onRetry}>
        Try again
      </Button>
    </p>
  );
}

/** What a query shows: that it loads, why it failed, or its data. */
export function Loaded<T>({
  query,
  narrower,
  children,
}: {
  query: Pick<UseQueryResult<T, unknown>, 'data' | 'error' | 'refetch'>;
  narrower?: Narrower | undefined;
  children: (data: T) => ReactNode;
}) {
  if (query.data !== undefined) {
    return (
      <>
        {query.error != null && <Stale error={query.error} onRetry={() => void query.refetch()} />}
        {children(query.data)}
      </>
    );
  }
  if (query.error) {
    return <Problem error={query.error} onRetry={() => void query.refetch()} narrower={narrower} />;
  }
  return (
    <div className={styles.note} role="status">
      Loading …
    </div>
  );
}

/** Figures with what they count. */
export function Cards({ children }: { children: ReactNode }) {
  return <dl className={styles.cards}>{children}</dl>;
}

export function Card({ label, value, detail }: { label: string; value: ReactNode; detail?: ReactNode }) {
  return (
    <div className={styles.card}>
      <dt>{label}</dt>
      <dd>
        {value}
        {detail !== undefined && <small>{detail}</small>}
      </dd>
    </div>
  );
}

export function Pairs({ of }: { of: readonly (readonly [label: string, value: ReactNode])[] }) {
  return (
    <dl className={styles.pairs}>
      {of.map(([label, value]) => (
        <div key={label} className={styles.pair}>
          <dt>{label}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
