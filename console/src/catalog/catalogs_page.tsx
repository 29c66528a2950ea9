// The page of the whole catalog: its catalogs, one more, and those that were dropped.
import { Library, Plus, Undo2 } from 'lucide-react';
import { useState } from 'react';
import { Button } from '../ui/button.tsx';
import { PageHead } from '../ui/layout/page.tsx';
import { Contents } from './contents.tsx';
import { CreateCatalogDialog } from './dialogs/create_dialogs.tsx';
import { UndropDialog } from './dialogs/undrop_dialog.tsx';

export function CatalogsPage() {
  const [dialog, setDialog] = useState<'create' | 'undrop'>();
  const close = () => setDialog(undefined);
  return (
    <>
      <PageHead
        icon={<Library aria-hidden />}
        title="Catalogs"
        actions={
          <>
            <Button icon={<Undo2 aria-hidden />} onClick={() => setDialog('undrop')}>
              Undrop
            </Button>
            <Button look="primary" icon={<Plus aria-hidden />} onClick={() => setDialog('create')}>
              Create catalog
            </Button>
          </>
        }
      />
      <Contents kind="catalog" parent={[]} />
      {dialog === 'create' && <CreateCatalogDialog onClose={close} />}
      {dialog === 'undrop' && <UndropDialog kinds={['catalog']} parent={[]} onClose={close} />}
    </>
  );
}
