<?php
// Says the length and the digest of a body, or of a form's file.
require __DIR__ . '/../lib/app.php';

$from = fopen($_FILES['file']['tmp_name'] ?? 'php://input', 'rb');
$digest = hash_init('sha256');
$length = hash_update_stream($digest, $from);
echo $length, ' ', hash_final($digest), "\n";
