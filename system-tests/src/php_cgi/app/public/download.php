<?php
// Sends 20 blocks of a MiB, each of which begins with tenant, request and number.
require __DIR__ . '/../lib/app.php';

$blocks = 20;
header('Content-Length: ' . ($blocks << 20));
while (ob_get_level() > 0) {
    ob_end_clean();
}
for ($block = 0; $block < $blocks; $block++) {
    echo str_pad('block ' . $block . ' of ' . TENANT . ' for ' . NONCE . "\n", 1 << 20, '.');
}
