import { Dialog } from '@base-ui/react/dialog';
import type { ReactNode } from 'react';
import styles from './controls.module.css';
import { visible } from './text.ts';

/** A dialog: the focus stays in it, Escape closes it. */
export function Modal({
  title,
  onClose,
  wide = false,
  children,
}: {
  title: string;
  onClose: () => void;
  wide?: boolean;
  children: ReactNode;
}) {
  return (
    <Dialog.Root open onOpenChange={(isOpen) => !isOpen && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className={styles.backdrop} />
        <Dialog.Popup className={styles.popup} data-wide={wide || undefined}>
          <Dialog.Title>{visible(title)}</Dialog.Title>
          {children}
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
