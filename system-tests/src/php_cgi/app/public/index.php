<?php
// Answers each path that is no file: a front controller.
require __DIR__ . '/../lib/app.php';

echo 'route ', $_SERVER['REQUEST_URI'], ' of ', TENANT, "\n";
